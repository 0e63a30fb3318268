#!/usr/bin/env bash
# Checks the form of every commit: a subject "area: imperative subject" of up to 72 characters, an empty line, a body.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

bad=0
while IFS= read -r -d '' record; do
    commit=${record%%$'\t'*} rest=${record#*$'\t'}
    subject=${rest%%$'\t'*} body=${rest#*$'\t'}
    if ! [[ $subject =~ ^[a-z][a-z0-9/.,\ -]*:\ [a-z] ]] || ((${#subject} > 72)) || [[ -z $body ]]; then
        echo "${commit:0:12} $subject" >&2
        bad=1
    fi
done < <(git log --no-merges -z --format='%H%x09%s%x09%b')
if ((bad)); then
    echo "verify-commits.sh: the commits above need a subject like \"controller: apply children only when they differ\" and a body that says why" >&2
    exit 1
fi
