"""Write releases to files that work without the state, and read them back.

No file contains a record. All contain the card, and all but the scikit-learn pipeline the hash.
"""

import io
import math
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import safetensors.numpy as safetensors
from numpy.lib import format as npy
from numpy.typing import NDArray

from tidegate.checks import InvalidValueError, Later, json_of, optional_module, refuse
from tidegate.data.feature_map import FeatureMap
from tidegate.release import StoredRelease, to_markdown
from tidegate.release.onnx_release import from_onnx, to_onnx
from tidegate.whole_file import delete_unfinished, read_whole, sync_folder, write_whole

if TYPE_CHECKING:
    from tidegate.release import clipped_regression
    from tidegate.release.model import Model, RegressionModel
else:
    clipped_regression = Later("tidegate.release.clipped_regression")


def export(release: StoredRelease, path: Path | str, kind: str | None = None) -> None:
    """Write a release to a file, atomically.

    Args:
        release: The release.
        path: The file to write.
        kind: "npz", "safetensors", "onnx", "sklearn", "json" or "md". By default the file's ending
            decides; a scikit-learn pipeline ends in ".joblib".
    """
    path = Path(path)
    ending = path.suffix.removeprefix(".")
    if not kind and ending not in ENDINGS:
        allowed = f"one that ends in {', '.join(f'.{each}' for each in ENDINGS)}"
        raise refuse("the export file", allowed, path.name)
    kind = kind or ENDINGS[ending]
    if kind not in KINDS:
        raise refuse("the export kind", f"one of {', '.join(KINDS)}", kind)
    data = KINDS[kind](release)
    delete_unfinished(path.parent, path.name)
    write(path, data)


def load(path: Path | str, features: FeatureMap | None = None) -> "Model | RegressionModel":
    """Load the model from an .npz, .safetensors or .onnx file; refuse a file with a wrong hash.

    Args:
        path: A file that `export` or `publish` wrote.
        features: The feature map, if it is not one of Tidegate's: the card only names those.
    """
    return load_release(path).model(features)


def load_release(path: Path | str) -> StoredRelease:
    """Load a release with its card from an .npz, .safetensors or .onnx file."""
    path = Path(path)
    if path.suffix not in READERS:
        raise refuse("the release file", f"a {', '.join(READERS)} file", str(path))
    return release_of(path, read_whole(path, follow=True))


def release_of(path: Path, data: bytes) -> StoredRelease:
    """Parse the content of a release file; refuse it if its hash is wrong."""
    if path.suffix == ".onnx":
        optional_module("onnx", "onnx")
    try:
        weights, text = READERS[path.suffix](data)
        release = StoredRelease(weights=weights, **json_of(text))
        intact = release.intact and release.text == text and _plain(weights) and _numbered(release)
    except Exception:  # a damaged file can raise anything
        intact = False
    if not intact:
        raise InvalidValueError(f"{path} is damaged or not a release: do not use it")
    weights.flags.writeable = False
    return release


def _numbered(release: StoredRelease) -> bool:
    """Whether a card says which release it belongs to; a text can be a number without end."""
    number = release.card["release"]
    return type(number) is int and number >= 0


def _plain(weights: NDArray[Any]) -> bool:
    """Whether these are weights as releases have them: finite numbers of 64 bits."""
    return weights.dtype == np.float64 and bool(np.isfinite(weights).all())


def to_npz(release: StoredRelease) -> bytes:
    """Two NumPy arrays: `weights`, and `release` with the card and hashes as JSON."""
    buffer = io.BytesIO()
    np.savez(buffer, weights=release.weights, release=np.array(release.text))
    return buffer.getvalue()


def to_safetensors(release: StoredRelease) -> bytes:
    """The tensor `weights`, and the metadata `release` with the card and hashes as JSON."""
    weights = np.ascontiguousarray(release.weights)
    return safetensors.save({"weights": weights}, metadata={"release": release.text})


def to_json(release: StoredRelease) -> bytes:
    """The card, the hash and the previous hash, as canonical JSON."""
    return (release.text + "\n").encode()


def to_md(release: StoredRelease) -> bytes:
    """The card in Markdown, with the hashes."""
    chain = f"\nHash `{release.hash}`  \nafter `{release.previous}`\n"
    return (to_markdown(release.card) + chain).encode()


def to_joblib(release: StoredRelease) -> bytes:
    """The release as a scikit-learn pipeline, in a joblib file; see `to_sklearn`."""
    return clipped_regression.to_joblib(release)


def write(path: Path, data: bytes) -> None:
    """Write a file durably unless it already has this content; replace a link of that name."""
    with suppress(OSError):
        if read_whole(path) == data:
            return
    write_whole(path, data, point="export")
    sync_folder(path.parent)


def _from_npz(data: bytes) -> tuple[NDArray[np.float64], str]:
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        weights, text = (_from_npy(file, name) for name in ("weights", "release"))
    return weights, str(text)


def _from_npy(file: zipfile.ZipFile, name: str) -> NDArray[Any]:
    """An array of an .npz file, as `to_npz` writes it: stored, so as large as it is in the file.

    The size that its header states is compared first: 4 MB can be unpacked to 4 GiB.
    """
    entry = file.getinfo(f"{name}.npy")
    if entry.compress_type != zipfile.ZIP_STORED or entry.file_size != entry.compress_size:
        raise ValueError(name)
    content = file.read(entry)
    header = io.BytesIO(content)
    read = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
    shape, _, dtype = read[npy.read_magic(header)](header)
    if math.prod(shape) * dtype.itemsize != len(content) - header.tell():
        raise ValueError(name)
    return npy.read_array(io.BytesIO(content), allow_pickle=False)


def _from_safetensors(data: bytes) -> tuple[NDArray[np.float64], str]:
    weights = safetensors.load(data)["weights"]
    # the package reads metadata only from paths; the data starts with the length of its header
    header = json_of(data[8 : 8 + int.from_bytes(data[:8], "little")])
    (tensor,) = header.keys() - {"__metadata__"}
    ((_, text),) = header["__metadata__"].items()
    return weights, text if tensor == "weights" else ""


KINDS: dict[str, Callable[[StoredRelease], bytes]] = {
    "npz": to_npz,
    "safetensors": to_safetensors,
    "onnx": to_onnx,
    "sklearn": to_joblib,
    "json": to_json,
    "md": to_md,
}
ENDINGS = {"joblib" if kind == "sklearn" else kind: kind for kind in KINDS}
READERS = {".npz": _from_npz, ".safetensors": _from_safetensors, ".onnx": from_onnx}
