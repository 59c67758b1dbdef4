// Policies of topics: defaults for messages, and flow control.

package delayq

import (
	"context"
	"fmt"
	"reflect"
	"strconv"
	"time"
)

// Set returns a pointer to a value, for a field of a Policy.
func Set[T any](value T) *T { return &value }

// Policy returns the settings that differ from the defaults.
func (t Topic) Policy(ctx context.Context) (policy Policy, err error) {
	shards, err := t.client.shards(ctx)
	if err = first(t.err, err); err != nil {
		return policy, err
	}
	reply, err := t.client.one(ctx, "describe", 0, t.name)
	for ; err == nil && len(reply) > 2; reply = reply[2:] {
		policy.read(Setting(reply[1].(string)), reply[2].(string), shards)
	}
	return policy, err
}

// SetPolicy applies a patch, resets the named settings to the defaults, and returns the whole policy.
func (t Topic) SetPolicy(ctx context.Context, patch Policy, reset ...Setting) (Policy, error) {
	err := first(t.err, patch.check(1))
	for _, one := range reset {
		if _, is := formOf(one); !is {
			err = first(err, InvalidMessage(fmt.Sprintf("%.40q is not a setting: one of the constants Setting…", one)))
		}
	}
	if err == nil {
		var shards int
		shards, err = t.client.shards(ctx)
		err = first(err, patch.check(shards))
	}
	if err == nil {
		_, err = t.client.everywhere(ctx, "configure", func(shards int) []any {
			args := append([]any{t.stored}, patch.settings(shards)...)
			for _, one := range reset {
				args = append(args, string(one), "")
			}
			return args
		})
	}
	if err != nil {
		return Policy{}, err
	}
	return t.Policy(ctx)
}

func formOf(setting Setting) (settingForm, bool) {
	for _, form := range settingForms {
		if form.setting == setting {
			return form, true
		}
	}
	return settingForm{}, false
}

// check refuses values that cannot be stored in one of so many shards.
func (p *Policy) check(shards int) (err error) {
	for _, form := range settingForms {
		_, fault := form.encode(p, shards)
		err = first(err, fault)
	}
	return err
}

// settings encodes a patch for configure, in one of so many shards.
func (p *Policy) settings(shards int) (args []any) {
	for _, form := range settingForms {
		if value, _ := form.encode(p, shards); value != nil {
			args = append(args, string(form.setting), value)
		}
	}
	return args
}

func (p *Policy) read(setting Setting, value string, shards int) {
	if form, is := formOf(setting); is {
		form.decode(p, value, shards)
	}
}

// encode returns the value of a field for configure, in one of so many shards; nil if the field is not set.
func (f settingForm) encode(p *Policy, shards int) (stored any, err error) {
	field := reflect.ValueOf(p).Elem().FieldByName(f.name)
	if field.IsNil() {
		return nil, nil
	}
	var number float64
	switch value := field.Elem().Interface().(type) {
	case uint16:
		number, stored = float64(value), value
	case uint32:
		number, stored = float64(value), value
	case time.Duration:
		number, stored = float64(wholeMillis(value)), wholeMillis(value)
		if value < 0 {
			number = -1 // below a millisecond, too
		}
	case float64:
		number = value / float64(shards)
		stored = strconv.FormatFloat(number, 'f', 12, 64)
	case bool:
		return map[bool]string{true: "1"}[value], nil
	case Backoff:
		return value.spec, value.err
	case string:
		if f.word.MatchString(value) {
			return value, nil
		}
		return nil, InvalidMessage(fmt.Sprintf("%s is %.40q: %s", f.name, value, f.word))
	}
	if number >= f.least && number <= f.most {
		return stored, nil
	}
	unit := map[string]string{"span": " ms", "rate": " a second in each shard"}[f.kind]
	return nil, InvalidMessage(fmt.Sprintf("%s is %v: %g to %g%s", f.name, field.Elem(), f.least, f.most, unit))
}

func (f settingForm) decode(p *Policy, text string, shards int) {
	field := reflect.ValueOf(p).Elem().FieldByName(f.name)
	value := reflect.New(field.Type().Elem())
	switch f.kind {
	case "count":
		value.Elem().SetUint(uint64(atoi(text)))
	case "span":
		value.Elem().SetInt(int64(time.Duration(atoi(text)) * time.Millisecond))
	case "rate":
		rate, _ := strconv.ParseFloat(text, 64)
		rate, _ = strconv.ParseFloat(strconv.FormatFloat(rate*float64(shards), 'g', 9, 64), 64)
		value.Elem().SetFloat(rate)
	case "flag":
		value.Elem().SetBool(true)
	case "backoff":
		value.Elem().Set(reflect.ValueOf(backoffOf(text)))
	default:
		value.Elem().SetString(text)
	}
	field.Set(value)
}
