package main

import (
	"encoding/json"
	"fmt"

	"github.com/cedar-policy/cedar-go/types"
	"k8s.io/apimachinery/pkg/runtime"
	kjson "sigs.k8s.io/json"

	reviewv1alpha1 "proviso.dev/proviso/api/authorizationreview/v1alpha1"
)

// contextOf is what policies see: operation, object, oldObject and options.
func contextOf(r *reviewv1alpha1.AuthorizationConditionsRequest) (types.Record, error) {
	given := types.RecordMap{"operation": types.String(r.Operation)}
	for key, raw := range map[string]runtime.RawExtension{"object": r.Object, "oldObject": r.OldObject, "options": r.Options} {
		text, err := json.Marshal(raw)
		if err != nil {
			return types.Record{}, err
		}
		var object any
		if err := kjson.UnmarshalCaseSensitivePreserveInts(text, &object); err != nil {
			return types.Record{}, err
		}
		value, err := valueOf(object)
		if err != nil {
			return types.Record{}, fmt.Errorf("%s: %w", key, err)
		}
		if value != nil {
			given[types.String(key)] = value
		}
	}
	return types.NewRecord(given), nil
}

// valueOf is a JSON value in Cedar, which has no null: that is left out, so that `has` says it is not there.
func valueOf(v any) (types.Value, error) {
	switch v := v.(type) {
	case nil:
		return nil, nil
	case bool:
		return types.Boolean(v), nil
	case string:
		return types.String(v), nil
	case int64:
		return types.Long(v), nil
	case []any:
		var list []types.Value
		for _, one := range v {
			value, err := valueOf(one)
			if err != nil {
				return nil, err
			}
			if value != nil {
				list = append(list, value)
			}
		}
		return types.NewSet(list...), nil
	case map[string]any:
		record := types.RecordMap{}
		for key, one := range v {
			value, err := valueOf(one)
			if err != nil {
				return nil, err
			}
			if value != nil {
				record[types.String(key)] = value
			}
		}
		return types.NewRecord(record), nil
	}
	return nil, fmt.Errorf("Cedar has no value for %v", v)
}
