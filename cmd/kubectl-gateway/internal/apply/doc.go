// Package apply applies files of objects of any kind: all of them, or, if one is wrong, none.
package apply
