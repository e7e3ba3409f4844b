"""``python -m reid_vpr_eval``: the command line."""

from reid_vpr_eval.cli import main

if __name__ == "__main__":
    main()
