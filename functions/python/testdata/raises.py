"""The network, with an error in the third batch."""
import network


class Model(network.Model):
    def train(self, batch, batch_index):
        if batch_index == 2:
            raise ValueError("no third batch")
        return super().train(batch, batch_index)


def main():
    return Model(network.Network(), network.Points()).start()
