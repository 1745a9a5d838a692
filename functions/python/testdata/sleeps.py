"""Never comes to an end of being imported."""
import time


def forever():
    print("importing", flush=True)
    time.sleep(3600)


forever()
