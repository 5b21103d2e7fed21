"""Files and settings that are made to exhaust the reader end in one line."""

import io
import json
import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from tests.cli.run import tidegate
from tests.state.released import made
from tidegate.checks import InvalidValueError, StoreError
from tidegate.release import export_formats as files
from tidegate.release.onnx_release import to_onnx
from tidegate.run.config import Config, ConfigError
from tidegate.run.config.tables import Locations
from tidegate.run.config.texts import MAX_KEY_PARTS, tables_of
from tidegate.state.folder_store import FolderStore
from tidegate.whole_file import read_whole


def repacked(data: bytes, how: int, weights: bytes | None = None) -> bytes:
    """An .npz file with other weights, or packed otherwise."""
    packed = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(packed, "w", how) as new:
        for name in old.namelist():
            other = name == "weights.npy" and weights is not None
            new.writestr(name, weights if other and weights else old.read(name))
    return packed.getvalue()


def npy(shape: tuple[int, ...], content: bytes) -> bytes:
    """An array file whose header states a shape, whatever its content is."""
    buffer = io.BytesIO()
    header = {"descr": "<f8", "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(buffer, header)
    return buffer.getvalue() + content


@pytest.mark.parametrize(
    ("how", "weights"),
    [
        (zipfile.ZIP_DEFLATED, None),
        (zipfile.ZIP_DEFLATED, npy((2**22,), bytes(2**25))),
        (zipfile.ZIP_STORED, npy((2**40,), bytes(8))),
        (zipfile.ZIP_STORED, npy((2**20, 2**20, 2**20), b"")),
        (zipfile.ZIP_STORED, npy((1,), bytes(2**20))),
    ],
)
def test_an_npz_file_is_no_larger_than_it_says(how: int, weights: bytes | None) -> None:
    _, chain, _ = made([0, 1])
    data = files.to_npz(chain[0])
    assert files.release_of(Path("a.npz"), repacked(data, zipfile.ZIP_STORED)).intact
    bomb = repacked(data, how, weights)
    with pytest.raises(InvalidValueError, match=r"a\.npz is damaged or not a release"):
        files.release_of(Path("a.npz"), bomb)


def test_an_onnx_file_reads_no_other_file(tmp_path: Path) -> None:
    _, chain, _ = made([0, 1])
    model = onnx.load_model_from_string(to_onnx(chain[0]))
    (kept,) = (each for each in model.graph.initializer if each.name == "weights")
    (tmp_path / "other").write_bytes(kept.raw_data)
    onnx.external_data_helper.set_external_data(kept, str(tmp_path / "other"))
    kept.ClearField("raw_data")
    with pytest.raises(InvalidValueError, match="damaged or not a release"):
        files.release_of(Path("a.onnx"), model.SerializeToString())


@pytest.mark.parametrize("header", [2**63, 2**32, 10**8 + 1])
def test_a_safetensors_header_is_not_longer_than_its_file(header: int) -> None:
    with pytest.raises(InvalidValueError, match="damaged or not a release"):
        files.release_of(Path("a.safetensors"), header.to_bytes(8, "little") + b"{}")


def test_a_file_that_is_too_large_or_full_of_holes_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "000000.safetensors"
    path.write_bytes(bytes(11))
    assert read_whole(path, 11) == bytes(11)
    with pytest.raises(OSError, match="Larger than 10 bytes"):
        read_whole(path, 10)
    os.truncate(path, 2**30)  # the rest is a hole
    with pytest.raises(OSError, match="Mostly holes"):
        read_whole(path)


def test_a_link_that_the_user_named_is_followed_and_a_fifo_is_not_waited_for(
    tmp_path: Path,
) -> None:
    _, chain, _ = made([0, 1])
    files.export(chain[0], tmp_path / "model.npz")
    (tmp_path / "link.npz").symlink_to("model.npz")
    assert files.load_release(tmp_path / "link.npz").hash == chain[0].hash
    os.mkfifo(tmp_path / "fifo.npz")
    with pytest.raises(OSError, match="Not a regular file"):
        files.load_release(tmp_path / "fifo.npz")


@pytest.mark.parametrize(
    "uri",
    [
        *(f"fsspec+{name}:///x" for name in ("memory", "dir", "http", "https", "simplecache")),
        "fsspec+dir::file:///x",
        "fsspec+simplecache::s3://bucket/x",
        "fsspec+s3::memory://x",
    ],
)
def test_segments_go_to_no_file_system_that_forgets_or_wraps_another(uri: str) -> None:
    with pytest.raises(InvalidValueError, match="segments must be an absolute path, or a URI"):
        Locations(segments=uri)


def test_a_file_system_that_is_not_installed_is_named_in_one_line(tmp_path: Path) -> None:
    locations = Locations(segments="fsspec+nowhere://x/y")
    with pytest.raises(StoreError, match=r"^fsspec\+nowhere://x/y/\S+: .*nowhere"):
        FolderStore(tmp_path / "state", "config", locations=locations)


DEEP = ".".join(["a"] * 50_000)


@pytest.mark.parametrize(
    ("toml", "why"),
    [
        (f"x = {'1' * 100_000}", "a whole number has too many digits"),
        (f"{DEEP} = 1", "a key has more than 16 parts"),
        (f"[{DEEP}]", "a key has more than 16 parts"),
        (f"x = {{{DEEP} = 1}}", "a key has more than 16 parts"),
        (f"{DEEP.replace('a', 'quoted')} = 1".replace("quoted", "'a'"), "more than 16 parts"),
        (f"{DEEP.replace('a', 'quoted')} = 1".replace("quoted", '"a"'), "more than 16 parts"),
        (f"{DEEP.replace('.', ' . ')} = 1", "a key has more than 16 parts"),
        (f'a = "\\""\n{DEEP} = 1', "a key has more than 16 parts"),
        (f"a = '''\n'''\n{DEEP} = 1", "a key has more than 16 parts"),
        (f"# '\n{DEEP} = 1", "a key has more than 16 parts"),
    ],
)
def test_toml_that_would_take_minutes_is_refused(toml: str, why: str) -> None:
    with pytest.raises(ConfigError, match=f"^the configuration is not valid: .*{why}$"):
        Config.parse(toml)


def test_dots_in_texts_and_comments_are_no_keys() -> None:
    dots = ".".join("a" * (MAX_KEY_PARTS + 5))
    toml = f'# {dots}\na = "{dots}"\nb = \'{dots}\'\nc = \'\'\'{dots}\'\'\'\nd = """{dots}\\""""'
    assert set(tables_of(toml)) == {"a", "b", "c", "d"}
    assert tables_of(f"{'.'.join('a' * MAX_KEY_PARTS)} = 1")


@pytest.mark.parametrize(
    ("section", "key"),
    [("publish", "folder"), ("store", "segments"), ("store", "database"), ("source", "path")],
)
def test_a_path_with_a_nul_is_refused(section: str, key: str) -> None:
    table: dict[str, Any] = {key: "a\0b", **({"type": "csv"} if section == "source" else {})}
    with pytest.raises(ConfigError) as error:
        Config.of({section: table})
    wanted = f"{section}.{key} must be a path or an address without a NUL character, got 'a\\x00b'"
    assert wanted in error.value.mistakes


def test_a_number_of_too_many_digits_is_named() -> None:
    with pytest.raises(ConfigError, match=r"not_private_seed must be .* too many digits"):
        Config.parse(f"not_private_seed = 0x{'1' * 100_000}")


def test_the_command_says_so_in_one_line(tmp_path: Path) -> None:
    config = tmp_path / "hostile.toml"
    for toml in (f"x = {'1' * 100_000}", f"{DEEP} = 1", '[publish]\nfolder = "a\\u0000b"'):
        config.write_text(toml)
        done = tidegate("run", str(config))
        assert done.returncode == 2
        assert done.stderr.count("\n") == 1
        assert "bug" not in done.stderr
    assert json.dumps(os.listdir(tmp_path)) == '["hostile.toml"]'
