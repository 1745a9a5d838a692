"""busyfork, in a program that cannot be forked."""
import threading

from busyfork import main  # noqa: F401

threading.Thread(target=threading.Event().wait, daemon=True).start()
