package apiserver

import (
	"encoding/json"
	"reflect"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// quickConverter shows objects to the computation of managed fields. That compares the object before a write with the
// one after it, of which a write changes little: what is equal as Go value is not turned into the maps that the
// computation works on. The library turns everything into maps, which took a third of a patch (BenchmarkManagedFields).
//
// Objects are not validated against the schema: both come from the same Go types, and an error would drop all managed
// fields.
type quickConverter struct {
	managedfields.TypeConverter
	types sync.Map // From schema.GroupVersionKind to *typed.TypedValue.
}

// ObjectToTyped implements managedfields.TypeConverter.
func (c *quickConverter) ObjectToTyped(
	object runtime.Object, options ...typed.ValidationOptions,
) (*typed.TypedValue, error) {
	if _, ok := object.(runtime.Unstructured); ok {
		return c.TypeConverter.ObjectToTyped(object, options...)
	}
	known, err := c.typeOf(object.GetObjectKind().GroupVersionKind())
	if err != nil {
		return nil, err
	}
	source := shallowCopy(object)
	if o, ok := source.(metav1.Object); ok {
		o.SetManagedFields(nil) // The computation drops them from its result.
	}
	return typed.AsTypedUnvalidated(objectValue{noFields, &fields{source: source}}, known.Schema(), known.TypeRef()), nil
}

// TypedToObject implements managedfields.TypeConverter. The computation asks for it to look at an object in another
// version.
func (c *quickConverter) TypedToObject(v *typed.TypedValue) (runtime.Object, error) {
	o, ok := v.AsValue().(objectValue)
	if !ok || o.fields.whole != nil {
		return c.TypeConverter.TypedToObject(v)
	}
	return shallowCopy(o.fields.source), nil // Its kind will be changed. Conversions do not write to what they read.
}

func shallowCopy(object runtime.Object) runtime.Object {
	result := reflect.New(reflect.TypeOf(object).Elem())
	result.Elem().Set(reflect.ValueOf(object).Elem())
	return result.Interface().(runtime.Object)
}

// typeOf returns any value of a kind's type.
func (c *quickConverter) typeOf(kind schema.GroupVersionKind) (*typed.TypedValue, error) {
	if known, ok := c.types.Load(kind); ok {
		return known.(*typed.TypedValue), nil
	}
	sample := &unstructured.Unstructured{}
	sample.SetGroupVersionKind(kind)
	known, err := c.TypeConverter.ObjectToTyped(sample)
	if err != nil {
		return nil, err
	}
	c.types.Store(kind, known)
	return known, nil
}

// noFields makes an objectValue what a map is.
var noFields = value.NewValueInterface(map[string]any{})

// objectValue is an object as the computation sees it.
type objectValue struct {
	value.Value
	fields *fields
}

func (o objectValue) AsMap() value.Map                     { return o.fields }
func (o objectValue) AsMapUsing(value.Allocator) value.Map { return o.fields }
func (o objectValue) Unstructured() any                    { return o.fields.all().Unstructured() }

// fields are the fields of an object, turned into maps when somebody looks at more than the differences.
type fields struct {
	source runtime.Object
	whole  value.Value
}

// all returns everything as maps.
func (f *fields) all() value.Value {
	if f.whole == nil {
		f.whole = value.NewValueInterface(plain(f.source))
	}
	return f.whole
}

// plain returns an object as maps. Objects of our types can always be shown so.
func plain(object any) map[string]any {
	result, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		panic(err) // Turned into an answer by the server, as where the library meets a type that it can't show.
	}
	return result
}

type (
	each = func(key string, field value.Value) bool
	both = func(key string, left, right value.Value) bool
)

func (f *fields) Set(key string, field value.Value)  { f.all().AsMap().Set(key, field) }
func (f *fields) Get(key string) (value.Value, bool) { return f.all().AsMap().Get(key) }
func (f *fields) GetUsing(a value.Allocator, key string) (value.Value, bool) {
	return f.all().AsMap().GetUsing(a, key)
}
func (f *fields) Has(key string) bool         { return f.all().AsMap().Has(key) }
func (f *fields) Delete(key string)           { f.all().AsMap().Delete(key) }
func (f *fields) Equals(other value.Map) bool { return f.all().AsMap().Equals(other) }
func (f *fields) EqualsUsing(a value.Allocator, other value.Map) bool {
	return f.all().AsMap().EqualsUsing(a, other)
}
func (f *fields) Iterate(visit each) bool { return f.all().AsMap().Iterate(visit) }
func (f *fields) IterateUsing(a value.Allocator, visit each) bool {
	return f.all().AsMap().IterateUsing(a, visit)
}
func (f *fields) Length() int { return f.all().AsMap().Length() }
func (f *fields) Empty() bool { return false } // There is a kind.
func (f *fields) Zip(other value.Map, order value.MapTraverseOrder, visit both) bool {
	return f.ZipUsing(value.HeapAllocator, other, order, visit)
}

// ZipUsing visits the fields of two objects side by side: of objects of one type only those that differ. That is right
// for comparing them and would be wrong for merging them; what is merged in an apply is never an object of a Go type on
// both sides.
func (f *fields) ZipUsing(a value.Allocator, other value.Map, order value.MapTraverseOrder, visit both) bool {
	o, ok := other.(*fields)
	if !ok || f.whole != nil || o.whole != nil || reflect.TypeOf(f.source) != reflect.TypeOf(o.source) ||
		!divisible(reflect.TypeOf(f.source).Elem(), "") {
		return f.all().AsMap().ZipUsing(a, other, order, visit)
	}
	left, right := differences(reflect.ValueOf(f.source), reflect.ValueOf(o.source))
	return value.NewValueInterface(plain(left.Interface())).AsMap().
		ZipUsing(a, value.NewValueInterface(plain(right.Interface())).AsMap(), order, visit)
}

// differences returns copies of two structs, given by pointers, without the fields that are equal in both.
func differences(left, right reflect.Value) (reflect.Value, reflect.Value) {
	lefts, rights := reflect.New(left.Type().Elem()), reflect.New(right.Type().Elem())
	for i := range left.Elem().NumField() {
		l, r := left.Elem().Field(i), right.Elem().Field(i)
		if reflect.DeepEqual(l.Addr().Interface(), r.Addr().Interface()) { // Pointers need no copies.
			continue
		}
		switch field := left.Elem().Type().Field(i); {
		case l.Kind() == reflect.Struct && divisible(field.Type, field.Tag):
			l, r = differences(l.Addr(), r.Addr())
			l, r = l.Elem(), r.Elem()
		case l.Kind() == reflect.Pointer && !l.IsNil() && !r.IsNil() && divisible(field.Type.Elem(), field.Tag):
			l, r = differences(l, r)
		}
		lefts.Elem().Field(i).Set(l)
		rights.Elem().Field(i).Set(r)
	}
	return lefts, rights
}

// divisible says whether a type is written field by field, and also when it has none.
func divisible(t reflect.Type, tag reflect.StructTag) bool {
	if t.Kind() != reflect.Struct || reflect.PointerTo(t).Implements(marshaler) ||
		strings.Contains(tag.Get("json"), ",omitzero") {
		return false
	}
	for i := range t.NumField() {
		if !t.Field(i).IsExported() {
			return false
		}
	}
	return true
}

var marshaler = reflect.TypeFor[json.Marshaler]()
