//go:build slow

package testtier

// All says that all tests run.
const All = true
