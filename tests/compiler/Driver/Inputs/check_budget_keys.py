"""Usage: check_budget_keys.py FOLDER: runs `smeltc budget CONFIG --json` on every config of the folder and checks the
keys that are a contract: that they are there, in this order, that they are integers, and their units."""
import json
import pathlib
import subprocess
import sys

KEYS = ["non_embedding_params", "total_params", "active_params", "training_flops_per_token", "forward_flops_per_token",
        "kv_elements_per_token", "executed_layers", "kv_bytes_per_token"]
BYTES = {"bfloat16": 2, "float16": 2, "float32": 4}

configs = sorted(pathlib.Path(sys.argv[1]).glob("*.json"))
for config in configs:
    run = subprocess.run(["smeltc", "budget", str(config), "--json"], capture_output=True, text=True, check=True)
    counts = json.loads(run.stdout)
    assert list(counts)[:len(KEYS)] == KEYS, (config, list(counts))
    for key in KEYS:
        assert type(counts[key]) is int and counts[key] >= 0, (config, key, counts[key])
    assert counts["kv_bytes_per_token"] == counts["kv_elements_per_token"] * BYTES[counts["dtype"]], config
    assert counts["training_flops_per_token"] == 3 * counts["forward_flops_per_token"], config
    assert counts["active_params"] <= counts["non_embedding_params"] < counts["total_params"], config
print(f"{len(configs)} configs have all keys")
