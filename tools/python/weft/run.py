"""python -m weft.run -n 4 python program.py: start the ranks of a job on this host (weft-run)."""

from weft.tool import become

if __name__ == "__main__":
    become("weft-run")
