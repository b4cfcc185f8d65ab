"""The Kubernetes files in examples/distributed are valid, and ranks meet as pods would: with names that DNS does not know yet."""

from __future__ import annotations

import pytest
from fakes.launching import TESTS

yaml = pytest.importorskip("yaml")
FILES = sorted((TESTS.parent / "examples" / "distributed").glob("*.yaml"))


def documents():
    """Return the YAML documents of the files by their kind."""
    texts = [file.read_text(encoding="utf-8") for file in FILES]
    return {one["kind"]: one for text in texts for one in yaml.safe_load_all(text)}


@pytest.mark.parametrize("kind", ["Job", "Service"])
def test_files_of_kubernetes(kind):
    """The Job and the Service follow the schema of Kubernetes, strictly: without unknown fields."""
    validate = pytest.importorskip("kubernetes_validate", reason="tox -e clusters installs it")
    validate.validate(documents()[kind], "1.33", strict=True)


def test_the_pods_of_a_jobset():
    """The JobSet follows the models of Kubeflow's trainer, and its pods the schema of Kubernetes."""
    models = pytest.importorskip("kubeflow_trainer_api.models", reason="tox -e clusters installs it")
    jobset = documents()["JobSet"]
    model = models.JobsetV1alpha2JobSet.from_dict(jobset)
    assert unknown_fields(jobset, model.to_dict()) == []
    job = jobset["spec"]["replicatedJobs"][0]["template"]
    validate = pytest.importorskip("kubernetes_validate", reason="tox -e clusters installs it")
    whole = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "rank"}, **job}
    validate.validate(whole, "1.33", strict=True)
    address = environment_of(job["spec"]["template"])["TENSORPACK_RANKS_ADDRESS"]
    assert address == f"{jobset['metadata']['name']}-rank-0-0.{jobset['metadata']['name']}:2222"


def test_the_tfjob():
    """The TFJob follows the models of Kubeflow's training operator; its container has the name that it requires."""
    models = pytest.importorskip("kubeflow.training.models", reason="tox -e clusters installs it")
    tfjob = documents()["TFJob"]
    for name in ("KubeflowOrgV1TFJob", "KubeflowOrgV1TFJobSpec"):
        assert hasattr(models, name)
    assert set(tfjob["spec"]) <= set(models.KubeflowOrgV1TFJobSpec.attribute_map.values())
    worker = tfjob["spec"]["tfReplicaSpecs"]["Worker"]
    assert set(worker) <= set(models.KubeflowOrgV1ReplicaSpec.attribute_map.values())
    assert "tensorflow" == worker["template"]["spec"]["containers"][0]["name"]
    validate = pytest.importorskip("kubernetes_validate", reason="tox -e clusters installs it")
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "worker"}, **worker["template"]}
    validate.validate(pod, "1.33", strict=True)


def environment_of(template):
    """Return the variables of the first container of a pod."""
    return {one["name"]: one.get("value") for one in template["spec"]["containers"][0]["env"]}


def unknown_fields(given, parsed, path=""):
    """Return the paths of the fields that a model has not kept."""
    if isinstance(given, dict):
        missing = [f"{path}.{key}" for key in given if key not in (parsed or {})]
        return missing + [
            one
            for key in given
            if key in (parsed or {})
            for one in unknown_fields(given[key], parsed[key], f"{path}.{key}")
        ]
    if isinstance(given, list):
        return [one for n, each in enumerate(given) for one in unknown_fields(each, parsed[n], f"{path}[{n}]")]
    return []
