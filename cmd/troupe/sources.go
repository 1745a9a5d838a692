package main

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/troupe-ml/troupe/actors"
	"github.com/troupe-ml/troupe/api/metrics"
	"github.com/troupe-ml/troupe/messages"
)

// scrapePatience is how long a scrape waits for the scheduler, which answers at
// once unless something is wrong.
const scrapePatience = 200 * time.Millisecond

// sources says what metrics ask of a node at each scrape.
func sources(c *actors.Company) metrics.Sources {
	var usable, busy atomic.Int64 // the last known
	return metrics.Sources{
		Slots: func() (int, int) {
			ctx, cancel := context.WithTimeout(context.Background(), scrapePatience)
			defer cancel()
			if reply, err := c.Hosts(ctx); err == nil {
				u, b := uint32(0), uint32(0)
				for _, h := range reply.GetHosts() {
					u, b = u+h.GetSlots(), b+h.GetBusy()
				}
				usable.Store(int64(u))
				busy.Store(int64(b))
			}
			return int(usable.Load()), int(busy.Load())
		},
		Mailboxes:   c.Load().Depths,
		DeadLetters: c.Load().DeadLetters,
		Queue: func() int {
			waiting := 0
			jobs, err := c.RunningJobs(context.Background())
			for _, j := range jobs {
				if err == nil && j.GetPhase() == messages.Phase_PHASE_QUEUED {
					waiting++
				}
			}
			return waiting
		},
	}
}
