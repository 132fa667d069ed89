package main

import (
	"encoding/json"
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
)

// contains fails unless `got` has all fields of `wanted`; it may have additional defaults.
func contains(got, wanted runtime.Object) error {
	whole, err := runtime.DefaultUnstructuredConverter.ToUnstructured(got)
	if err != nil {
		return err
	}
	part, err := runtime.DefaultUnstructuredConverter.ToUnstructured(wanted)
	if err != nil {
		return err
	}
	return within("", part, whole)
}

// same fails unless both are equal in every field; the error names a field that differs.
func same(got, wanted runtime.Object) error {
	if equality.Semantic.DeepEqual(got, wanted) {
		return nil
	}
	for _, err := range []error{contains(got, wanted), contains(wanted, got)} {
		if err != nil {
			return err
		}
	}
	return fmt.Errorf("they differ only in Go: %#v and %#v", got, wanted)
}

func within(path string, part, whole any) error {
	switch part := part.(type) {
	case nil:
		return nil // a time that is not set
	case map[string]any:
		whole, is := whole.(map[string]any)
		for key, value := range part {
			if !is && value != nil {
				return fmt.Errorf("%s is missing", path)
			}
			if err := within(path+"."+key, value, whole[key]); err != nil {
				return err
			}
		}
		return nil
	case []any:
		whole, _ := whole.([]any)
		for i, value := range part {
			if i >= len(whole) {
				return fmt.Errorf("%s has only %d elements", path, len(whole))
			}
			if err := within(fmt.Sprintf("%s[%d]", path, i), value, whole[i]); err != nil {
				return err
			}
		}
		return nil
	}
	if !reflect.DeepEqual(part, whole) {
		left, _ := json.Marshal(whole)
		right, _ := json.Marshal(part)
		return fmt.Errorf("%s: got %s, expected %s", path, left, right)
	}
	return nil
}
