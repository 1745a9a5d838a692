package client

import (
	"context"
	mathrand "math/rand/v2"
	"time"
)

// silence is after how long a server that sends no heartbeat is gone: five of
// them.
const silence = 75 * time.Second

// connection follows what a server says until that ends, and calls heard
// whenever it says something. It reports whether another connection may give
// more, and whether this one gave something.
type connection func(ctx context.Context, heard func()) (again, progress bool, err error)

// follow follows one connection after another, until one says that none gives
// more, or the server was out of reach for Config.Patience.
func (c *Client) follow(ctx context.Context, once connection) error {
	pause := firstPause
	var lost time.Time // since when there was nothing
	for {
		again, progress, err := c.listen(ctx, once)
		if !again || ctx.Err() != nil {
			return err
		}
		now := time.Now()
		if progress {
			lost, pause = time.Time{}, firstPause
		}
		if lost.IsZero() {
			lost = now
			c.lost(c.Server(), c.patience)
		}
		if now.Sub(lost) > c.patience || !sleep(ctx, pause/2+mathrand.N(pause)) {
			return err
		}
		pause = min(2*pause, longPause)
	}
}

// listen follows one connection, and cuts it when the server is silent for too
// long, be it before its first word.
func (c *Client) listen(ctx context.Context, once connection) (again, progress bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	quiet := time.AfterFunc(c.silence, cancel)
	defer quiet.Stop()
	return once(ctx, func() { quiet.Reset(c.silence) })
}
