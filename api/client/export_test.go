package client

import "context"

// Follow follows one connection after another.
func (c *Client) Follow(ctx context.Context, once func(ctx context.Context, heard func()) (again, progress bool, err error)) error {
	return c.follow(ctx, once)
}
