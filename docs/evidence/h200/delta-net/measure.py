"""../moe/measure2.py with the arms and cells of this folder: measure.py KEEP MODELS OUT END GPU MODEL[,MODEL...]

measure2.py lies beside it in the carried folder. Rows go to OUT/prefill-GPU.jsonl.
"""
import measure2

ARMS = ["head", "copy", "nn", "nng"]
measure2.ARMS = {"dense-27b": ARMS, "moe-512": ARMS}
measure2.ENOUGH, measure2.CELLS = {"dense-27b": 9, "moe-512": 20}, 2
measure2.PROMPTS, measure2.REPEATS, measure2.FILE = "2048", "5", "prefill"
measure2.main()
