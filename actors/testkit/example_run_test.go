package testkit_test

import (
	"fmt"
	"testing"

	"github.com/troupe-ml/troupe/actors/testkit"
)

func TestTheExampleHoldsForEverySeed(t *testing.T) {
	for seed := range testkit.Seeds(t, 20) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) { noCoinIsLost(t, seed) })
	}
}
