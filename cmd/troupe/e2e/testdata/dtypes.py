"""One tensor of each type that a model file can hold, and one without dimensions.
A batch adds a quarter to what has fractions and one to what has not, in function 1
twice as much, and sets the flag of its function. $ALSO adds what no file can hold."""
import os

import torch
from torch import nn

from troupe import Model

FRACTIONS = {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32, "f64": torch.float64}
WHOLE = {"i64": torch.int64, "i32": torch.int32, "i16": torch.int16, "i8": torch.int8, "u8": torch.uint8}


class Net(nn.Module):
    def __init__(self, also):
        super().__init__()
        for name, dtype in FRACTIONS.items():
            values = torch.arange(6, dtype=torch.float64).view(2, 3) / 4
            self.register_parameter(name, nn.Parameter(values.to(dtype)))
            self.register_parameter(name + "_0d", nn.Parameter(torch.tensor(1.5, dtype=dtype)))
        for name, dtype in WHOLE.items():
            self.register_buffer(name, torch.arange(3, dtype=dtype))
            self.register_buffer(name + "_0d", torch.tensor(7, dtype=dtype))
        self.register_buffer("flags", torch.zeros(3, dtype=torch.bool))
        self.register_buffer("flag_0d", torch.tensor(False))
        self.register_buffer("empty", torch.zeros(0, 3))
        if also == "complex":
            self.register_buffer("also", torch.zeros(2, dtype=torch.complex64))
        elif also == "quantised":
            self.register_buffer("also", torch.quantize_per_tensor(torch.zeros(2), 0.1, 0, torch.qint8))
        elif also == "sparse":
            self.register_buffer("also", torch.eye(2).to_sparse())


class Types(Model):
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=self.lr)

    def train(self, batch, batch_index):
        function = self.args._func_id
        with torch.no_grad():
            for name, value in self._network.state_dict().items():
                if not name.startswith("flag"):
                    value += (function + 1) * (0.25 if value.is_floating_point() else 1)
            self._network.flags[function] = True
            self._network.flag_0d.fill_(True)
        return 1.0

    def validate(self, batch, batch_index):
        return 1.0


def main():
    return Types(Net(os.environ.get("ALSO"))).start()
