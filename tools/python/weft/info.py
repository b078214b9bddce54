"""python -m weft.info: what this build is and what works here (weft-info)."""

from weft.tool import become

if __name__ == "__main__":
    become("weft-info")
