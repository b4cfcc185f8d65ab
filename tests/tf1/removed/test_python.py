"""Under `tensorpack-lite run`, scripts for Python 2 and for older versions of Python 3 run."""

from __future__ import annotations

import sys

import pytest
from tf1.command import python, run_quickly

pytestmark = pytest.mark.slow

_PYTHON_2 = '''\
"""A script."""
import os, sys
import StringIO, cPickle, urllib
from helper import half
from multiprocessing import Process, Queue

class Count(object):
    def __init__(self): self.n = 0
    def __iter__(self): return self
    def next(self):
        self.n += 1
        if self.n > 2:
            raise StopIteration, "the end"
        return self.n

def work(queue):
    queue.put(7 / 2)

if __name__ == "__main__":
    d = {"a": 1, "b": 2}
    print "sum", sum(v for k, v in d.iteritems()), d.keys()[0], d.has_key("c"), 7 / 2, 7 / 2.0
    print list(Count()), map(str, xrange(2)), `1`, 0777, 1 <> 2, isinstance(u"x", unicode), half(5),
    try:
        raise ValueError, "wrong"
    except ValueError, error:
        print error.message
    print >>sys.stderr, "to stderr"
    print StringIO.StringIO("text").read(), urllib.quote("a b"), sys.maxint > 1, cmp(2, 1), reduce(max, [1, 3])
    queue = Queue()
    process = Process(target=work, args=(queue,))
    process.start()
    print queue.get(), sys.argv[1:], __name__, __file__.endswith("train.py"), __spec__
    process.join()
'''


class TestPython2:
    def test_syntax(self, write, tmp_path):
        """A script and its modules in Python 2 run with the meaning of Python 2; no file is written."""
        write("train.py", _PYTHON_2)
        write("helper.py", "def half(x):\n    print 'half',\n    return x / 2\n")
        result = run_quickly("train.py", "--gpu", "0", cwd=tmp_path)
        assert result.returncode == 0, result.stderr
        assert result.stdout.splitlines() == [
            "sum 3 a False 3 3.5",
            "half [1, 2] ['0', '1'] 1 511 True True 2 wrong",
            "text a%20b True 1 3",
            "3 ['--gpu', '0'] __main__ True None",
        ]
        log = result.stderr.splitlines()
        text = "the file is in the syntax of Python 2. Its translation runs; the file itself is not changed."
        assert f"tensorpack-lite run: train.py: {text}" in log
        assert f"tensorpack-lite run: helper.py: {text}" in log
        assert "to stderr" in log
        assert not list(tmp_path.rglob("*.pyc"))
        assert (tmp_path / "train.py").read_text() == _PYTHON_2

    def test_spawn(self, write, tmp_path):
        """A process that multiprocessing spawns, which imports the script again, gets the translation, too."""
        text = _PYTHON_2.replace("Process, Queue", "get_context").replace(
            "queue = Queue()", "context = get_context('spawn')\n    queue = context.Queue()"
        )
        write("train.py", text.replace("Process(target", "context.Process(target"))
        write("helper.py", "def half(x):\n    return x / 2\n")
        result = run_quickly("train.py", cwd=tmp_path)
        assert result.stdout.splitlines()[-1].startswith("3 [] __main__ True"), result.stderr

    def test_traceback(self, write, tmp_path):
        """The traceback of an error shows the lines of the file, and nothing else."""
        write("train.py", "print 'a'\n\ndef f():\n    raise KeyError(3)\n\nf()\n")
        result = run_quickly("train.py", cwd=tmp_path)
        places = [line.split(", ")[1] for line in result.stderr.splitlines() if line.startswith("  File")]
        assert places == ["line 6", "line 4"]
        assert result.returncode == 1

    def test_wrong_syntax(self, write, tmp_path):
        """A file whose syntax is wrong in Python 2 as well has Python's own error."""
        write("train.py", "if if:\n")
        result = run_quickly("train.py", cwd=tmp_path)
        assert result.stderr.splitlines()[-1] == "SyntaxError: invalid syntax"
        assert "tensorpack-lite run" not in result.stderr

    def test_without_translator(self, write, tmp_path):
        """Without lib2to3 and fissix, a line says which package to install."""
        for name in ("lib2to3", "fissix"):
            write(f"empty/{name}.py", "raise ImportError('missing')\n")
        write("train.py", "print 'a'\n")
        result = python(
            "train.py",
            cwd=tmp_path,
            path=[*_startup(), tmp_path / "empty"],
            TENSORPACK_LITE_RUN="1",
            TENSORPACK_LITE_PREFIX=sys.prefix,
        )
        assert "pip install fissix" in result.stderr
        assert "SyntaxError: Missing parentheses" in result.stderr


def _startup():
    from tf1.command import PACKAGES, STARTUP

    return [STARTUP, PACKAGES]


class TestPython3Syntax:
    def test_methods_and_names(self, output):
        """Methods, built-in names and modules of Python 2 work in a file that Python 3 can read."""
        lines, log = output(
            """
            from __future__ import print_function
            import Queue
            class It(object):
                def __iter__(self):
                    return self
                def next(self):
                    raise StopIteration()
            print(list(It()), iter([1]).next(), {"a": 1}.keys()[0], zip([1], [2])[0], unicode("a"), len(xrange(3)))
            print(sorted({1: 2}.iteritems()), "text".decode("utf-8"), (lambda: 0).func_name, Queue.Queue.__module__)
            print(sorted([1, 2], cmp=lambda a, b: b - a), 7 / 2)
            """
        )
        assert lines == ["[] 1 a (1, 2) a 3", "[(1, 2)] text <lambda> queue", "[2, 1] 3.5"]
        assert "train.py:9: xrange, which Python 3 does not have, is range." in log

    def test_lists_and_orders(self, output):
        """Where Python 3 raises an error for what was a list or a comparison, the meaning of Python 2 applies."""
        lines, log = output(
            """
            import random
            d = {1: 2}
            print(d.keys() + [3], [0] + d.values(), range(3) + [5], len(map(str, [1, 2])), d.keys().sort())
            def compare(a, b):
                return b - a
            x = [3, 1, 2]
            x.sort(compare)
            print(x, sorted(x, cmp), sorted(x, lambda a, b: b - a))
            print(random.sample(d.keys(), 1), random.sample(d.values(), 1), random.sample({1}, 1))
            """
        )
        assert lines == ["[1, 3] [0, 2] [0, 1, 2, 5] 2 None", "[3, 2, 1] [1, 2, 3] [3, 2, 1]", "[1] [2] [1]"]
        assert "train.py:4: dict_keys is a list here, as in Python 2." in log

    def test_other_objects(self, output):
        """Objects of other classes with the same methods are not changed."""
        lines, log = output(
            """
            import numpy as np
            axis, a = 0, np.array([[2, 1], [0, 3]])
            a.sort(axis)
            class Mine:
                def sort(self, compare):
                    return compare
                def keys(self):
                    return [1]
            print(a.tolist(), Mine().sort(axis), Mine().keys() + [2], (range(2) + np.arange(2)).tolist(), len([*map(str, "ab")]))
            """
        )
        assert lines == ["[[0, 1], [2, 3]] 0 [1, 2] [0, 2] 2"]
        assert ["train.py:10: range is a list here, as in Python 2."] == log

    def test_files_in_memory(self, output):
        """A file of the module StringIO contains bytes if these are written first, and text otherwise."""
        lines, _ = output(
            """
            import StringIO
            one, other = StringIO.StringIO(), StringIO.StringIO()
            one.write(b"bytes")
            other.write("two\\nlines")
            other.seek(0)
            print(one.getvalue(), list(other), StringIO.StringIO(b"x").read())
            with StringIO.StringIO("text") as file:
                print(next(file))
            """
        )
        assert lines == [r"b'bytes' ['two\n', 'lines'] b'x'", "text"]

    @pytest.mark.parametrize(
        ("line", "sentence"),
        [
            ("k.sort()", "Write list(...) around the call."),
            ("x[0] = 1", "Write list(...) around the call."),
            ("len(m)", "Write list(...) around the call."),
            ("[1] + k", "Write list(...) around the call."),
            ("io.StringIO().write(b'')", "Use io.BytesIO for a file of bytes in memory."),
        ],
    )
    def test_hints(self, write, tmp_path, line, sentence):
        """An error that code of Python 2 causes is followed by what to do."""
        write("train.py", f"import io\nk, x, m = {{}}.keys(), range(3), map(str, [])\n{line}\n")
        result = run_quickly("train.py", cwd=tmp_path)
        last = result.stderr.splitlines()[-1]
        assert last.startswith("tensorpack-lite run: ")
        assert last.endswith(sentence)

    def test_replacements_of_the_script_stay(self, output):
        """A script that replaces what is missing itself keeps its replacement, and nothing is logged."""
        lines, log = output(
            """
            try:
                from StringIO import StringIO
            except ImportError:
                from io import BytesIO as StringIO
            try:
                xrange
            except NameError:
                xrange = "mine"
            try:
                unicode
                python = 2
            except NameError:
                python = 3
            print(StringIO.__name__, xrange, python)
            """
        )
        assert (lines, log) == (["BytesIO mine 3"], [])

    def test_installed_packages_do_not_see_python_2(self, output, write):
        """An installed package that tests whether Python is version 2 finds version 3."""
        write(
            "site-packages/old_library.py",
            """
            import sys, types, urllib
            found = [hasattr(sys, "maxint"), hasattr(types, "ClassType"), hasattr(urllib, "quote")]
            def load():
                import urllib2
            """,
        )
        lines, _ = output(
            """
            import sys
            sys.path.append("site-packages")
            import old_library, urllib
            print(old_library.found, urllib.quote(" "))
            try:
                old_library.load()
            except ImportError as error:
                print(error.name)
            """
        )
        assert lines == ["[False, False, False] %20", "urllib2"]

    def test_python_3(self, output):
        """Names that Python 3 has removed since 3.0 work in all files."""
        lines, _ = output(
            """
            import collections, inspect, fractions, time, base64, random, threading, itertools
            from collections import Mapping, OrderedDict
            print(issubclass(dict, Mapping), inspect.getargspec(lambda a, b=1: 0).args, fractions.gcd(12, -8))
            print(time.clock() >= 0, base64.encodestring(b"a"), len(random.sample({1, 2, 3}, 2)))
            print(threading.current_thread().isAlive(), open(__file__, "rU").readline(), random.shuffle([1], random.random))
            import imp, pipes
            print(imp.new_module("a").__name__, pipes.quote("a b"), imp.load_source("b", __file__) if __name__ != "__main__" else "")
            """
        )
        assert lines == ["True ['a', 'b'] -4", "True b'YQ==\\n' 2", "True ", " None", "a 'a b' "]

    def test_old_finders(self, output):
        """A finder that has only `find_module`, as that of an old six, does not stop imports."""
        lines, _ = output(
            """
            import sys
            class Old(object):
                def find_module(self, name, path=None):
                    return None
            sys.meta_path.insert(0, Old())
            import fractions
            print(fractions.gcd(4, 6))
            """
        )
        assert lines == ["2"]

    def test_imp(self, tmp_path, write):
        """The module for Python 3.12 and later loads files, packages and modules by their place."""
        from tensorpack_lite.tf1.removed import imp_names as imp

        file = write("some_module.py", "x = 1\n")
        assert imp.load_source("some_module", str(file)).x == 1
        file.write_text("y = 22\n")
        module = imp.load_source("some_module", str(file))
        assert (module.x, module.y) == (1, 22)  # the same module
        opened, path, details = imp.find_module("some_module", [str(tmp_path)])
        with opened:
            assert imp.load_module("some_module", opened, path, details) is module
        del sys.modules["some_module"]
        with pytest.raises(ImportError, match="No module named 'nothing_here'"):
            imp.find_module("nothing_here", [str(tmp_path)])


class TestRelativeImports:
    def test_modules_beside(self, write, tmp_path):
        """A package finds its own modules without a dot; a module that Python finds elsewhere is not replaced."""
        write("pack/__init__.py", "from parts import *\nimport inner.deep as deep, json, parts as same\n")
        write(
            "pack/parts.py",
            "import random, inner.deep\ndef number():\n    return inner.deep.NUMBER, random.random\n",
        )
        write("pack/inner/__init__.py", "")
        write("pack/inner/deep.py", "NUMBER = 3\n")
        write("pack/random.py", "")
        write("train.py", "import pack\nprint(pack.number()[0], pack.deep.NUMBER, pack.same is pack.parts)\n")
        result = run_quickly("train.py", cwd=tmp_path)
        assert result.stdout.splitlines() == ["3 3 True"], result.stderr
        assert "pack/__init__.py:1: the import of parts is relative to its package" in result.stderr
        assert "random is relative" not in result.stderr

    def test_missing_module(self, write, tmp_path):
        """A module that is nowhere is the error of Python."""
        write("pack/__init__.py", "from nowhere import *\n")
        write("train.py", "import pack\n")
        result = run_quickly("train.py", cwd=tmp_path)
        assert "ModuleNotFoundError: No module named 'nowhere'" in result.stderr
