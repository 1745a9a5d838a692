package actors

import (
	"context"

	"github.com/troupe-ml/troupe/messages"
)

// OfferSlots has the node offer so many of its slots from now on; more than it has
// are all. Once it returns the Scheduler knows. What runs on more than that runs
// to its end. Unavailable.
func (c *Company) OfferSlots(ctx context.Context, slots uint32) error {
	_, err := ask[*messages.OfferSlotsReply](ctx, c, c.tree.Host, &messages.OfferSlots{Seq: c.offers.Add(1), Slots: slots})
	return err
}

// Busy returns how many slots of the node functions hold. Unavailable.
func (c *Company) Busy(ctx context.Context) (uint32, error) {
	hosts, err := c.Hosts(ctx)
	if err != nil {
		return 0, err
	}
	var busy uint32
	for _, h := range hosts.GetHosts() {
		busy += h.GetBusy()
	}
	return busy, nil
}
