"""
Convert Pascal VOC's annotations to COCO's format, for train.py.

    python examples/detection/voc.py VOCdevkit/VOC2007          writes train.json (trainval) and test.json there
    python examples/detection/train.py --data VOCdevkit/VOC2007

Objects marked as difficult become crowds, which neither training nor evaluation counts. VOC has boxes, but no masks, for most
images, so train without --masks.

Source: Everingham et al. 2010, "The Pascal visual object classes (VOC) challenge".
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from xml.etree import ElementTree

CLASSES = [
    "aeroplane", "bicycle", "bird", "boat", "bottle",
    "bus", "car", "cat", "chair", "cow",
    "diningtable", "dog", "horse", "motorbike", "person",
    "pottedplant", "sheep", "sofa", "train", "tvmonitor",
]  # fmt: skip


def read_objects(root: ElementTree.Element) -> list:
    """Return the annotations in the XML tree of an image, without ids. VOC counts pixels from 1; the last one is included."""
    rows = []
    for item in root.findall("object"):
        corners = (item.findtext(f"bndbox/{key}", "") for key in ("xmin", "ymin", "xmax", "ymax"))
        x1, y1, x2, y2 = map(float, corners)
        width, height = x2 - x1 + 1, y2 - y1 + 1
        difficult = int(item.findtext("difficult", "0"))
        row = {"category_id": CLASSES.index(item.findtext("name", "")) + 1, "iscrowd": difficult}
        rows.append(dict(row, bbox=[x1 - 1, y1 - 1, width, height], area=width * height))
    return rows


def voc_to_coco(folder: Path, split: str) -> dict:
    """Return the images of a split, e.g. "trainval", and their annotations in COCO's format."""
    images: list = []
    annotations: list = []
    names = (folder / "ImageSets" / "Main" / f"{split}.txt").read_text(encoding="utf-8").split()
    for image_id, name in enumerate(names, start=1):
        root = ElementTree.parse(str(folder / "Annotations" / f"{name}.xml")).getroot()
        height, width = (int(root.findtext(f"size/{key}", "")) for key in ("height", "width"))
        file_name = "JPEGImages/" + root.findtext("filename", "")
        images.append({"id": image_id, "file_name": file_name, "height": height, "width": width})
        for row in read_objects(root):
            annotations.append(dict(row, id=len(annotations) + 1, image_id=image_id))
    categories = [{"id": i, "name": name} for i, name in enumerate(CLASSES, start=1)]
    return {"images": images, "annotations": annotations, "categories": categories}


def main(argv=None) -> None:
    formatter = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=formatter)
    parser.add_argument("folder", type=Path, help="with Annotations, ImageSets and JPEGImages")
    folder = parser.parse_args(argv).folder
    for split, name in [("trainval", "train"), ("test", "test")]:
        content = voc_to_coco(folder, split)
        (folder / f"{name}.json").write_text(json.dumps(content), encoding="utf-8")
        print(f"{name}: {len(content['images'])} images, {len(content['annotations'])} objects")


if __name__ == "__main__":
    main()
