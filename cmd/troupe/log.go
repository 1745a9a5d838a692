package main

import (
	"io"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// newLog returns a log of lines for people on w: errors only at verbosity 0,
// state transitions too at 1 (-v), everything from 2 (-vv).
func newLog(w io.Writer, verbosity int) *zap.Logger {
	level := zapcore.ErrorLevel
	switch {
	case verbosity >= 2:
		level = zapcore.DebugLevel
	case verbosity == 1:
		level = zapcore.InfoLevel
	}
	encoder := zap.NewDevelopmentEncoderConfig()
	encoder.EncodeTime = zapcore.TimeEncoderOfLayout("15:04:05.000")
	encoder.CallerKey = zapcore.OmitKey
	return zap.New(zapcore.NewCore(zapcore.NewConsoleEncoder(encoder), zapcore.AddSync(w), level))
}
