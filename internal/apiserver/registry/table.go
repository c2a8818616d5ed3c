package registry

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	metatable "k8s.io/apimachinery/pkg/api/meta/table"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Texts for values that are missing.
const (
	None    = "<none>"
	Unknown = "<unknown>"
	Pending = "<pending>"
)

// Column returns a text column of a table.
func Column(name, description string) metav1.TableColumnDefinition {
	return metav1.TableColumnDefinition{Name: name, Type: "string", Description: description}
}

// WideColumn returns a text column that only wide tables show.
func WideColumn(name, description string) metav1.TableColumnDefinition {
	return metav1.TableColumnDefinition{Name: name, Type: "string", Description: description, Priority: 1}
}

// Or returns the string that a pointer points to, or missing if the pointer is nil or the string empty.
func Or(value *string, missing string) string {
	if value == nil || *value == "" {
		return missing
	}
	return *value
}

var (
	nameColumn = metav1.TableColumnDefinition{
		Name: "Name", Type: "string", Format: "name", Description: "Name of the object.",
	}
	ageColumn = metav1.TableColumnDefinition{Name: "Age", Type: "date", Description: "Time since the object was created."}
)

type tableConvertor[T Object] struct{ kind *Kind[T] }

func (c tableConvertor[T]) ConvertToTable(_ context.Context, o, options runtime.Object) (*metav1.Table, error) {
	table := &metav1.Table{}
	if opt, ok := options.(*metav1.TableOptions); !ok || !opt.NoHeaders {
		table.ColumnDefinitions = append(table.ColumnDefinitions, nameColumn)
		table.ColumnDefinitions = append(table.ColumnDefinitions, c.kind.Columns...)
		if !c.hasAge() {
			table.ColumnDefinitions = append(table.ColumnDefinitions, ageColumn)
		}
	}
	if list, err := meta.ListAccessor(o); err == nil {
		table.ResourceVersion = list.GetResourceVersion()
		table.Continue = list.GetContinue()
		table.RemainingItemCount = list.GetRemainingItemCount()
	} else if object, err := meta.CommonAccessor(o); err == nil {
		table.ResourceVersion = object.GetResourceVersion()
	}
	add := func(o runtime.Object) error {
		object := o.(T)
		cells := []any{object.GetName()}
		if c.kind.Row != nil {
			cells = append(cells, c.kind.Row(object)...)
		}
		if !c.hasAge() {
			cells = append(cells, Age(object))
		}
		table.Rows = append(table.Rows, metav1.TableRow{Cells: cells, Object: runtime.RawExtension{Object: o}})
		return nil
	}
	if !meta.IsListType(o) {
		return table, add(o)
	}
	return table, meta.EachListItem(o, add)
}

// hasAge reports whether the kind has placed the age column itself.
func (c tableConvertor[T]) hasAge() bool {
	for _, column := range c.kind.Columns {
		if column.Name == ageColumn.Name {
			return true
		}
	}
	return false
}

// AgeColumn is for kinds with columns after the age.
func AgeColumn() metav1.TableColumnDefinition { return ageColumn }

// Age returns the cell for AgeColumn.
func Age(object metav1.Object) string {
	return metatable.ConvertToHumanReadableDateType(object.GetCreationTimestamp())
}
