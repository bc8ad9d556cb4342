# Run python.py, which the descriptor in argv[1] holds, from the compiled copy that an earlier process left:
# compiling costs 20 ms and 4 MB that the process keeps. argv[2] names the copy, whose directory is AFLOAT_HOST_CACHE.
import _frozen_importlib_external as _boot
import marshal as _marshal
import os as _os
import sys as _sys
import zlib as _zlib


def _load():
    source = int(_sys.argv[1])
    directory = _os.environ.pop("AFLOAT_HOST_CACHE", "")
    path = f"{directory}/{_sys.argv[2]}-{_sys.implementation.cache_tag}.bin"
    if directory:
        try:
            with open(path, "rb") as f:
                data = f.read()
            if data[:4] == _boot.MAGIC_NUMBER and int.from_bytes(data[4:8], "little") == _zlib.crc32(data[8:]):
                return _marshal.loads(data[8:])
        except (OSError, EOFError, ValueError, TypeError):
            pass
    _os.lseek(source, 0, 0)
    with open(source, encoding="utf-8", closefd=False) as f:
        code = compile(f.read(), "/proc/afloat/host/python.py", "exec", dont_inherit=True)
    if directory:
        data = _marshal.dumps(code)
        try:
            _os.makedirs(directory, 0o700, exist_ok=True)
            with open(f"{path}.{_os.getpid()}", "wb") as f:
                f.write(_boot.MAGIC_NUMBER + _zlib.crc32(data).to_bytes(4, "little") + data)
            _os.rename(f"{path}.{_os.getpid()}", path)
        except OSError:
            pass
    return code


exec(_load())
