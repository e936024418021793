"""SmolLM2-135M with rows of 768 in place of 576: the same function, rows that blocks of 256 divide.

    python docs/evidence/lavapipe/wide_model.py FROM.gguf TO.gguf FLAT.gguf      # FROM in F32

576 is no multiple of 256, so llama-quantize would give most matrices another type than the one
that is asked for. The stream gets 192 columns of zeros; RMS norms divide by sqrt(768) where they
divided by sqrt(576), so their weights are multiplied by sqrt(576/768) and epsilon by 576/768.
Three heads of 64 to a key head become four: the third is there twice, with half of its columns in
attn_output each. In exact arithmetic the logits are the same.

FLAT is an importance matrix of ones, without which llama-quantize makes no IQ3_XXS.
"""

import sys

import numpy as np
from gguf import GGUFReader, GGUFValueType, GGUFWriter

OLD, NEW, HEAD, GROUPS = 576, 768, 64, 3
KEEP = np.float32(OLD / NEW)


def widen(name: str, weight: np.ndarray) -> np.ndarray:
    """Rows are outputs, columns inputs."""
    if weight.ndim == 1:
        return np.pad(weight * np.sqrt(KEEP), (0, NEW - OLD))
    if "attn_q." in name:
        heads = weight.reshape(GROUPS, 3, HEAD, OLD)
        weight = np.concatenate((heads, heads[:, 2:]), axis=1).reshape(NEW, OLD)
    if "attn_output." in name:
        heads = weight.reshape(OLD, GROUPS, 3, HEAD)
        half = heads[:, :, 2:] / 2
        weight = np.concatenate((heads[:, :, :2], half, half), axis=2).reshape(OLD, NEW)
    rows, columns = ((NEW - OLD) * (size == OLD) for size in weight.shape)
    return np.pad(weight, ((0, rows), (0, columns)))


def write_flat(path: str, widths: dict[str, int]) -> None:
    """Every input as important as the others."""
    writer = GGUFWriter(path, "")
    writer.add_type("imatrix")
    writer.add_array("imatrix.datasets", ["none"])
    writer.add_uint32("imatrix.chunk_count", 1)
    writer.add_uint32("imatrix.chunk_size", 1)
    for name, width in widths.items():
        writer.add_tensor(f"{name}.in_sum2", np.ones((1, width), np.float32))
        writer.add_tensor(f"{name}.counts", np.ones((1, 1), np.float32))
    finish(writer)


def finish(writer: GGUFWriter) -> None:
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main() -> None:
    source, target, flat = sys.argv[1:]
    reader = GGUFReader(source)
    architecture = reader.fields["general.architecture"].contents()
    changed = {
        f"{architecture}.embedding_length": NEW,
        f"{architecture}.attention.head_count": NEW // HEAD,
        f"{architecture}.attention.layer_norm_rms_epsilon": float(
            KEEP * reader.fields[f"{architecture}.attention.layer_norm_rms_epsilon"].contents()
        ),
    }
    writer = GGUFWriter(target, architecture)
    for name, field in reader.fields.items():
        if name.startswith("GGUF.") or name == "general.architecture":
            continue
        kinds = (*field.types, None)
        value = changed.get(name, field.contents())
        inner = kinds[1] if kinds[0] == GGUFValueType.ARRAY else None
        writer.add_key_value(name, value, kinds[0], inner)
    widths = {}
    for tensor in reader.tensors:
        weight = widen(tensor.name, np.array(tensor.data, np.float32))
        writer.add_tensor(tensor.name, weight)
        if weight.ndim == 2:
            widths[tensor.name] = weight.shape[1]
    finish(writer)
    write_flat(flat, widths)


if __name__ == "__main__":
    main()
