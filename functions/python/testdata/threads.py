"""The network, in a program that starts a thread when it is imported."""
import threading

from network import main  # noqa: F401

threading.Thread(target=threading.Event().wait, daemon=True).start()
