package jobjson

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/troupe-ml/troupe/internal/task"
	"github.com/troupe-ml/troupe/messages"
)

// chaos is the option that breaks functions on purpose: the text that --chaos
// takes, or an object with the same names and values.
func chaos() optionField {
	return optionField{
		name: "chaos",
		schema: map[string]any{
			"type": []string{"string", "object"}, "description": `what to break on purpose: "kill=0.1,seed=7" or {"kill": 0.1, "seed": 7}`,
			"additionalProperties": map[string]any{"type": []string{"string", "number"}},
		},
		set: func(o *messages.TrainOptions, what string, raw json.RawMessage) error {
			plan, err := chaosText(what, raw)
			if err != nil || plan == "" {
				return err
			}
			o.Chaos, err = task.ParseChaos(plan)
			return err
		},
		get: func(o *messages.TrainOptions) any { return unlessZero(chaosPlan(o.GetChaos())) },
	}
}

// chaosText returns a plan as text, whichever way it is given.
func chaosText(what string, raw json.RawMessage) (string, error) {
	if raw[0] != '{' {
		return text(what, raw)
	}
	members, err := Object(what, raw)
	if err != nil {
		return "", err
	}
	var parts []string
	for _, m := range members {
		value := string(m.Value)
		if m.IsNull() {
			continue
		}
		if !isNumber(m.Value) {
			if value, err = text(what+"."+Shown(m.Name), m.Value); err != nil {
				return "", err
			}
		}
		name := strings.ReplaceAll(m.Name, "_", "-")
		if strings.ContainsAny(name+value, ",=") {
			return "", Invalid("%s: %q: %q is no name with a value", what, Shown(m.Name), Shown(value))
		}
		parts = append(parts, name+"="+value)
	}
	return strings.Join(parts, ","), nil
}

// chaosPlan is what task.ParseChaos reads as that plan; "" for none.
func chaosPlan(plan *messages.ChaosPlan) string {
	if plan == nil {
		return ""
	}
	var parts []string
	for _, share := range task.ChaosShares(plan) {
		if *share.Value != 0 {
			parts = append(parts, share.Name+"="+strconv.FormatFloat(*share.Value, 'g', -1, 64))
		}
	}
	if down := plan.GetStoreDownMs(); down != 0 {
		parts = append(parts, "store-down="+strconv.FormatUint(down, 10)+"ms")
	}
	if plan.GetSeed() != 0 {
		parts = append(parts, "seed="+strconv.FormatUint(plan.GetSeed(), 10))
	}
	return strings.Join(parts, ",")
}
