package actors_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// What a node offers the Scheduler knows at once.
func TestACompanyOffersSomeOfItsSlots(t *testing.T) {
	c := serve(t, "mem://", 4)
	defer c.Close()
	for _, slots := range []uint32{1, 3, 0, 4} {
		require.NoError(t, c.OfferSlots(t.Context(), slots))
		hosts, err := c.Hosts(t.Context())
		require.NoError(t, err)
		require.Equal(t, slots, hosts.GetHosts()[0].GetSlots())
	}
}
