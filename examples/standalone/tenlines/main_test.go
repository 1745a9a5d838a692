package main

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/troupe-ml/troupe/actors"
	"github.com/troupe-ml/troupe/config"
)

func TestTenLinesTrain(t *testing.T) {
	node := config.DefaultNode()
	node.Store = "file://" + t.TempDir()
	company, err := actors.Start(actors.Config{Log: zap.NewNop(), Node: node})
	require.NoError(t, err)
	defer company.Close()
	model, err := trained(company)
	require.NoError(t, err)
	require.Contains(t, model, "file://")
}
