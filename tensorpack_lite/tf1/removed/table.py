"""
The removed names, and what provides them.

An address is the dotted name of an object. One that begins with a dot is in this package; "" is the module that has the
names of `NAMES`.
"""

from __future__ import annotations

from typing import Mapping


def _same(module: str, names: str) -> dict[str, str]:
    """Return the addresses of names that another module has under the same names."""
    return {name: f"{module}.{name}" for name in names.split()}


def _table(text: str) -> dict[str, str]:
    """Return the addresses in pairs `name=address`."""
    return dict(pair.split("=") for pair in text.split())


_ABSTRACT = """Awaitable ByteString Callable Container Coroutine Generator Hashable ItemsView Iterable Iterator KeysView
    Mapping MappingView MutableMapping MutableSequence MutableSet Sequence Set Sized ValuesView"""
_WINDOWS = """barthann bartlett blackman blackmanharris bohman boxcar chebwin cosine exponential flattop gaussian
    general_gaussian hamming hann kaiser nuttall parzen triang tukey"""


def _tensorflow(modules: str, names: str) -> dict[str, dict[str, str]]:
    """Return, for modules of `tensorflow.python`, the addresses of names that the public interface of TensorFlow 1 has."""
    return {f"tensorflow.python.{module}": _same("tensorflow.compat.v1", names) for module in modules.split()}


# Names for everyone. Installed packages that are as old as the script use these names, too.
NAMES: Mapping[str, Mapping[str, str]] = {
    # Python
    "base64": _table("encodestring=base64.encodebytes decodestring=base64.decodebytes"),
    "cgi": _table("escape=.python_names.escape"),
    "collections": _same("collections.abc", _ABSTRACT),
    "fractions": _table("gcd=.python_names.gcd"),
    "imp": {
        **_same("importlib", "reload"),
        **_same("importlib.util", "cache_from_source source_from_cache"),
        **_table("new_module=types.ModuleType get_magic=.imp_names.get_magic"),
        **_same(
            ".imp_names",
            """PY_SOURCE PY_COMPILED C_EXTENSION PKG_DIRECTORY acquire_lock find_module get_suffixes load_compiled
            load_dynamic load_module load_package load_source lock_held release_lock""",
        ),
    },
    "inspect": _same(".python_names", "getargspec"),
    "locale": _table("format=.python_names.locale_format"),
    "os": _table("errno=errno"),
    "pipes": _same("shlex", "quote"),
    "sys": _same(".python_names", "getcheckinterval setcheckinterval"),
    "time": _table("clock=.python_names.clock"),
    # NumPy
    "numpy": {
        **_same("builtins", "bool complex float int object str"),
        **_table(
            """long=builtins.int unicode=builtins.str math=math float_=numpy.float64 complex_=numpy.complex128
            cfloat=numpy.complex128 singlecomplex=numpy.complex64 longfloat=numpy.longdouble
            longcomplex=numpy.clongdouble clongfloat=numpy.clongdouble string_=numpy.bytes_ unicode_=numpy.str_
            bool8=numpy.bool_ int0=numpy.intp uint0=numpy.uintp object0=numpy.object_ str0=numpy.str_
            bytes0=numpy.bytes_ void0=numpy.void NaN=numpy.nan NAN=numpy.nan Inf=numpy.inf Infinity=numpy.inf
            infty=numpy.inf PINF=numpy.inf product=numpy.prod cumproduct=numpy.cumprod alltrue=numpy.all
            sometrue=numpy.any row_stack=numpy.vstack trapz=numpy.trapezoid round_=numpy.round mat=numpy.asmatrix
            rank=numpy.ndim typeDict=numpy.sctypeDict DataSource=numpy.lib.npyio.DataSource
            byte_bounds=numpy.lib.array_utils.byte_bounds safe_eval=ast.literal_eval issubclass_=builtins.issubclass
            loads=pickle.loads deprecate=.numpy_names.deprecate sctypes=.numpy_names.SCTYPES"""
        ),
        **_same(
            ".numpy_names",
            """NINF PZERO NZERO alen asfarray asscalar cast disp find_common_type in1d issctype issubsctype
            maximum_sctype msort nbytes obj2sctype recfromcsv recfromtxt sctype2char set_string_function""",
        ),
        **_same(
            "numpy.exceptions",
            "AxisError ComplexWarning ModuleDeprecationWarning RankWarning TooHardError VisibleDeprecationWarning",
        ),
    },
    "numpy.lib": _same("numpy", "pad"),
    "numpy.linalg": _table("linalg=numpy.linalg"),
    "numpy.random": _table("random_integers=.numpy_names.random_integers"),
    # SciPy
    "scipy.integrate": _table(
        "trapz=scipy.integrate.trapezoid cumtrapz=scipy.integrate.cumulative_trapezoid simps=scipy.integrate.simpson"
    ),
    "scipy.linalg": _table("pinv2=scipy.linalg.pinv tri=numpy.tri tril=numpy.tril triu=numpy.triu"),
    "scipy.misc": {
        **_same("scipy.special", "comb factorial factorial2 factorialk logsumexp"),
        **_same("scipy.datasets", "ascent electrocardiogram face"),
        **_same(".scipy_images", "bytescale fromimage imread imresize imrotate imsave toimage"),
    },
    "scipy.ndimage": {
        "imread": ".scipy_images.imread",
        **dict.fromkeys(("filters", "fourier", "interpolation", "measurements", "morphology"), "scipy.ndimage"),
    },
    "scipy.signal": _same("scipy.signal.windows", _WINDOWS),
    "scipy.sparse.linalg.eigen": _table("arpack=scipy.sparse.linalg"),
    "scipy.special": _table("sph_harm=.scipy_names.sph_harm"),
    "scipy.stats": _same(".scipy_names", "binom_test itemfreq median_absolute_deviation nanmean nanmedian nanstd"),
    # images and figures
    "PIL": _table("PILLOW_VERSION=PIL.__version__ VERSION=PIL.__version__"),
    "PIL.Image": _table(
        """ANTIALIAS=PIL.Image.LANCZOS LINEAR=PIL.Image.BILINEAR CUBIC=PIL.Image.BICUBIC
        PILLOW_VERSION=PIL.__version__ VERSION=PIL.__version__ fromstring=PIL.Image.frombytes"""
    ),
    "matplotlib.cm": _same(".matplotlib_names", "get_cmap register_cmap"),
    "matplotlib.pyplot": _same(".matplotlib_names", "hold ishold"),
    "skimage.feature": _table("greycomatrix=skimage.feature.graycomatrix greycoprops=skimage.feature.graycoprops"),
    "skimage.filters": _table(
        "gaussian_filter=skimage.filters.gaussian threshold_adaptive=.skimage_names.threshold_adaptive"
    ),
    "skimage.measure": _same(".skimage_names", "compare_mse compare_nrmse compare_psnr compare_ssim"),
    "skimage.morphology": _same("skimage.segmentation", "watershed"),
    "skimage.util": _table("pad=numpy.pad montage2d=.skimage_names.montage2d"),
    "cv2": _table("cv=cv2.cv SIFT=cv2.SIFT_create ORB=cv2.ORB_create"),
    # private modules of TensorFlow
    **_tensorflow("framework.common_shapes", "rank"),
    **_tensorflow(
        "framework.ops",
        """IndexedSlices Tensor convert_to_tensor_or_indexed_slices disable_tensor_equality enable_tensor_equality
        register_tensor_conversion_function""",
    ),
    **_tensorflow("ops.array_ops", "stack unstack"),
    **_tensorflow("ops.control_flow_ops", "Assert case cond switch_case while_loop"),
    **_tensorflow("ops.random_ops", "random_crop"),
    **_tensorflow("ops.standard_ops", "is_variable_initialized random_crop stack unstack"),
    "tensorflow.python.data.ops.dataset_ops": _same("tensorflow.compat.v1.data", "Options"),
    "tensorflow.python.ops.nn": _same(
        "tensorflow.compat.v1.nn",
        "bidirectional_dynamic_rnn dynamic_rnn raw_rnn static_rnn static_state_saving_rnn",
    ),
    "tensorflow.python.ops.variable_scope": {
        **_same(
            "tensorflow.compat.v1",
            "disable_resource_variables enable_resource_variables resource_variables_enabled",
        ),
        "variable": "tensorflow.compat.v1.Variable",
    },
    "tensorflow.python.ops.variables": {
        **dict.fromkeys(("RefVariable", "VariableV1"), "tensorflow.compat.v1.Variable"),
        **_same("tensorflow.compat.v1", "is_variable_initialized"),
    },
    "tensorflow.python.pywrap_tensorflow": _same("tensorflow.compat.v1.train", "NewCheckpointReader"),
    "tensorflow.python.util.nest": _table("is_sequence=tensorflow.nest.is_nested"),
    # others
    "librosa.filters": _same(".librosa_names", "dct"),
    "pyarrow": _same(".pyarrow_names", "deserialize serialize"),
    "sklearn.datasets": _table("samples_generator=sklearn.datasets"),
    "sklearn.externals": _table("joblib=joblib six=six"),
    "sklearn.utils.linear_assignment_": _same(".sklearn_names", "linear_assignment"),
    "sklearn.preprocessing": _table("Imputer=.sklearn_names.Imputer"),
}

# Modules whose removed names a function knows: it takes a name, and raises an AttributeError for others
FAMILIES: Mapping[str, str] = {
    "cv2": ".cv_module.find",
    "cv2.cv": ".cv_module.find",
    "scipy": ".scipy_names.find",
}

# Modules that have been removed for everyone
MODULES: Mapping[str, str] = {
    "cv2.cv": "",
    "imp": "",
    "numpy.linalg.linalg": "numpy.linalg",
    "pipes": "",
    "scipy.misc": "",
    "scipy.ndimage.filters": "scipy.ndimage",
    "scipy.ndimage.fourier": "scipy.ndimage",
    "scipy.ndimage.interpolation": "scipy.ndimage",
    "scipy.ndimage.measurements": "scipy.ndimage",
    "scipy.ndimage.morphology": "scipy.ndimage",
    "scipy.sparse.linalg.eigen": "scipy.sparse.linalg",
    "scipy.sparse.linalg.eigen.arpack": "scipy.sparse.linalg",
    "scipy.sparse.linalg.eigen.arpack.arpack": "scipy.sparse.linalg",
    "skimage.external.tifffile": "tifffile",
    "skimage.filter": "skimage.filters",
    "sklearn.cross_validation": "sklearn.model_selection",
    "sklearn.datasets.samples_generator": "sklearn.datasets",
    "sklearn.externals": "",
    "sklearn.externals.joblib": "joblib",
    "sklearn.externals.six": "six",
    "sklearn.grid_search": "sklearn.model_selection",
    "sklearn.utils.linear_assignment_": "",
    "tensorflow.python.ops.seq2seq": "tensorpack_lite.tf1.contrib.legacy_seq2seq",
    "tensorflow.python.training.training_ops": "tensorflow.python.ops.gen_training_ops",
    "tf_keras.legacy_tf_layers": "tf_keras.src.legacy_tf_layers",
    "tf_keras.legacy_tf_layers.normalization": "tf_keras.src.legacy_tf_layers.normalization",
    "xml.etree.cElementTree": "xml.etree.ElementTree",
}

# Functions that change a module when it has been imported: a class or a function has lost a method or an argument
PATCHES: Mapping[str, str] = {
    "h5py": ".h5py_names.complete",
    "matplotlib.backends.backend_agg": ".matplotlib_names.complete",
    "numpy": ".numpy_names.complete",
    "random": ".python_patches.complete_random",
    "scipy.interpolate": ".scipy_names.complete_interpolate",
    "scipy.sparse.linalg.eigen": ".scipy_names.complete_eigen",
    "tensorflow_core.contrib": "tensorpack_lite.tf1.view.explain_contrib",
    "tensorpack_lite": "tensorpack_lite.tf1.old_tensorpack.complete.complete",
    "threading": ".python_patches.complete_threading",
    "yaml": ".yaml_names.complete",
}

# Names of Python 2. Only the files of the script get them: packages test by these names whether Python is version 2.
PYTHON_2_NAMES: Mapping[str, Mapping[str, str]] = {
    "itertools": _table(
        """izip=builtins.zip imap=builtins.map ifilter=builtins.filter ifilterfalse=itertools.filterfalse
        izip_longest=itertools.zip_longest"""
    ),
    "operator": _table(
        """isCallable=builtins.callable sequenceIncludes=operator.contains div=.python_2_numbers.divide
        idiv=.python_2_numbers.idivide"""
    ),
    "os": _table("getcwdu=os.getcwd"),
    "string": {
        **_table("letters=string.ascii_letters lowercase=string.ascii_lowercase uppercase=string.ascii_uppercase"),
        **_same(
            ".python_2_names",
            "atof atoi find join joinfields lower lstrip maketrans replace rstrip split strip upper",
        ),
    },
    "sys": _table("maxint=sys.maxsize setdefaultencoding=.python_2_names.setdefaultencoding"),
    "types": _table(
        """BooleanType=builtins.bool ClassType=builtins.type DictType=builtins.dict FloatType=builtins.float
        IntType=builtins.int ListType=builtins.list LongType=builtins.int ObjectType=builtins.object
        StringType=builtins.str TupleType=builtins.tuple TypeType=builtins.type UnicodeType=builtins.str
        StringTypes=.python_2_names.StringTypes NoneType=.python_2_names.NoneType"""
    ),
    "urllib": {
        **_same("urllib.parse", "quote quote_plus unquote unquote_plus urlencode"),
        **_same(
            "urllib.request",
            "FancyURLopener URLopener getproxies pathname2url url2pathname urlcleanup urlopen urlretrieve",
        ),
    },
    "StringIO": _table("StringIO=.python_2_names.StringIO"),
    "UserDict": _table("UserDict=collections.UserDict DictMixin=collections.abc.MutableMapping"),
    "commands": _same("subprocess", "getoutput getstatusoutput"),
    "cStringIO": _table("StringIO=.python_2_names.StringIO"),
    "md5": _table("md5=hashlib.md5 new=hashlib.md5"),
    "sets": _table("Set=builtins.set ImmutableSet=builtins.frozenset"),
    "urllib2": {
        **_same("urllib.error", "HTTPError URLError"),
        **_same("urllib.parse", "quote unquote urlparse"),
        **_same(
            "urllib.request",
            """HTTPBasicAuthHandler HTTPCookieProcessor HTTPHandler HTTPPasswordMgrWithDefaultRealm HTTPRedirectHandler
            HTTPSHandler ProxyHandler Request build_opener install_opener urlopen""",
        ),
    },
}

PYTHON_2_MODULES: Mapping[str, str] = {
    **dict.fromkeys(("StringIO", "UserDict", "cStringIO", "commands", "md5", "sets", "urllib2"), ""),
    **_table(
        """BaseHTTPServer=http.server ConfigParser=configparser Cookie=http.cookies HTMLParser=html.parser
        Queue=queue SimpleHTTPServer=http.server SocketServer=socketserver Tkinter=tkinter __builtin__=builtins
        anydbm=dbm cPickle=pickle cookielib=http.cookiejar copy_reg=copyreg exceptions=builtins
        htmlentitydefs=html.entities httplib=http.client repr=reprlib thread=_thread tkFileDialog=tkinter.filedialog
        tkMessageBox=tkinter.messagebox urlparse=urllib.parse xmlrpclib=xmlrpc.client
        Image=PIL.Image ImageDraw=PIL.ImageDraw ImageEnhance=PIL.ImageEnhance ImageFilter=PIL.ImageFilter
        ImageFont=PIL.ImageFont ImageOps=PIL.ImageOps"""
    ),
}

# Built-in names of Python 2, also for the files of the script only
BUILTINS: Mapping[str, str] = {
    **_table(
        """basestring=builtins.str long=builtins.int unicode=builtins.str unichr=builtins.chr
        xrange=builtins.range raw_input=builtins.input file=builtins.open reduce=functools.reduce reload=importlib.reload
        intern=sys.intern StandardError=builtins.Exception"""
    ),
    **_same(".python_2_names", "apply buffer cmp execfile"),
}

# Words of which a file contains at least one if `rewrite.py` changes it, besides those of BUILTINS
WORDS = [
    "File",
    "cmp",
    "copy",
    "decode",
    "encoding",
    "filter",
    "fromstring",
    "func_code",
    "func_defaults",
    "func_name",
    "getchildren",
    "getiterator",
    "getsize",
    "has_key",
    "im_func",
    "im_self",
    "items",
    "itemset",
    "iteritems",
    "iterkeys",
    "itervalues",
    "keys",
    "map",
    "message",
    "multichannel",
    "newbyteorder",
    "newshape",
    "next",
    "normed",
    "ptp",
    "range",
    "sort",
    "sorted",
    "textsize",
    "tostring",
    "values",
    "viewitems",
    "viewkeys",
    "viewvalues",
    "warn",
    "zip",
]
