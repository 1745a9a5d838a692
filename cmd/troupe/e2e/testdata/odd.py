"""Arrays in less usual forms, as an npz archive; prints as JSON what a program has
to see of its first part: [dtype, values] of x and of y.

    odd.py FORM OUT.npz
"""
import io
import json
import sys
import zipfile

import numpy as np

X = np.arange(24).reshape(4, 3, 2) % 7 - 3  # [n, 3, 2]
Y = np.array([1, 0, 0, 1])
FORMS = {  # x, y, the header's version, the type in which a program sees x
    "fortran": (np.asfortranarray(X.astype("<f4")), Y.astype("<i8"), (1, 0), "float32"),
    "big-endian": (X.astype(">f8"), Y.astype(">i4"), (2, 0), "float64"),
    "big-endian fortran": (np.asfortranarray(X.astype(">i2")), Y.astype("u1"), (3, 0), "int16"),
    "halves": (X.astype("<f2"), Y.astype("?"), (1, 0), "float16"),
    "bytes": (X.astype("i1"), Y.astype("i1"), (1, 0), "int8"),
    "unsigned bytes": ((X + 3).astype("u1"), Y.astype("<u2"), (1, 0), "uint8"),
    "unsigned words": ((X + 3).astype("<u2"), Y.astype("<u8"), (1, 0), "uint16"),
    "bools": (X > 0, Y.astype("<f4"), (1, 0), "bool"),
}


def main(form, path):
    x, y, version, seen = FORMS[form]
    with zipfile.ZipFile(path, "w") as archive:
        for name, array in {"x_train": x, "y_train": y, "x_test": x, "y_test": y}.items():
            b = io.BytesIO()
            np.lib.format.write_array(b, array, version=version)
            archive.writestr(name + ".npy", b.getvalue())
    labels = "float32" if y.dtype.kind == "f" else "int64"
    print(json.dumps([seen, x.tolist(), labels, y.astype(labels).tolist()]))


main(*sys.argv[1:])
