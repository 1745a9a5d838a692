"""Is busy in C for an hour, with the interpreter's lock held, and has started a
process when it was imported."""
import ctypes
import subprocess

subprocess.Popen(["sleep", "3600"])

def main():
    print("busy", flush=True)
    ctypes.PyDLL(None).sleep(3600)
