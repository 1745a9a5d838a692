package jobjson_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/internal/jobjson"
)

func TestABodyOfAnotherTypeIsRefusedInWords(t *testing.T) {
	var into struct {
		Model string `json:"model_id"`
	}
	err := jobjson.Decode("request", []byte(`{"model_id":5}`), &into, "model_id")
	require.EqualError(t, err, `request: model_id is of the wrong type, number: give a text in quotes`)
}
