"""Is busy in C for an hour, with the interpreter's lock held."""
import ctypes


def main():
    print("busy", flush=True)
    ctypes.PyDLL(None).sleep(3600)
