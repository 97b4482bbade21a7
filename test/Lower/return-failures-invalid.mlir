// RUN: fusion-opt %s --tandem-return-failures -split-input-file -verify-diagnostics

// Somebody else's function has a name that is needed.
// expected-error@below {{the name 'malloc' is used by compiled modules}}
func.func private @malloc(%x: f32) {
  return
}

// -----

// expected-error@below {{the name 'tandem_module_last_message' is used by compiled modules}}
func.func @tandem_module_last_message() {
  return
}
