#!/usr/bin/env bash
# Plays the five terminals of docs/consortium.md on one machine: a coordinator, and the sites lima, lyon, oslo, pune.
# Usage: examples/consortium.sh [FOLDER]      FOLDER (default: ./consortium) is made; PORT may be set.
set -euo pipefail

PORT="${PORT:-18002}"
mkdir "${1:-consortium}"
cd "${1:-consortium}"
export OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1
STARTED=()

finish() {
  # Only what was started here is ended, by its own number.
  dpcape federation stop federation > /dev/null 2>&1 || true
  # All but the server, which was started first: a site would wait for it to come back.
  for pid in "${STARTED[@]:1}"; do kill "$pid" 2> /dev/null || true; done
  for pid in "${STARTED[@]}"; do
    for _ in $(seq 100); do kill -0 "$pid" 2> /dev/null || break; sleep 0.2; done
    kill "$pid" 2> /dev/null || true
  done
}
trap finish EXIT

say() { printf '\n== %s\n' "$*"; }

say "Everybody agrees on the study; each site has its own file"
python -c '
import numpy as np
from sklearn.datasets import load_digits

images = load_digits().data
for number, site in enumerate(["lima", "lyon", "oslo", "pune"]):
    np.savez(f"{site}.npz", X=images[number::4])
'
cat > study.toml << 'END'
[study]
name = "digits"
analysis = "pca"
n_components = 3
epsilon = 2.0
delta = 1e-6

[protocol]
kind = "cape"
n_colluding = 1
minimum_sites = 3
deadline = "2m"

[sites.lima]
[sites.lyon]
[sites.oslo]
[sites.pune]

[data]
kind = "rows"
features = 64
ranges = [0, 16]
bound = 8.0

[federation]
engine = "flare"
folder = "federation"
END

for SITE in lima lyon oslo pune; do
  say "Terminal of $SITE: folder, identity, data with a ceiling"
  dpcape site init "sites/$SITE" --name "$SITE"
  dpcape site add main "$SITE.npz" --folder "sites/$SITE" --epsilon 4 --delta 1e-5
  dpcape site identity --folder "sites/$SITE" --json > "$SITE.identity.json"
done

say "Terminal 1, the coordinator: kits and server"
SITES=(--site lima.identity.json --site lyon.identity.json --site oslo.identity.json --site pune.identity.json)
dpcape federation init federation "${SITES[@]}" --port "$PORT" --json > coordinator.identity.json
dpcape federation serve federation > server.log 2>&1 &
STARTED+=($!)

for SITE in lima lyon oslo pune; do
  say "Terminal of $SITE: pin the others, review, approve, serve"
  for OTHER in coordinator lima lyon oslo pune; do
    KEY=$(python -c 'import json, sys; print(json.load(open(sys.argv[1]))["public_key"])' "$OTHER.identity.json")
    dpcape site pin "$OTHER" "$KEY" --folder "sites/$SITE"
  done
  dpcape site review study.toml --folder "sites/$SITE"
  dpcape site approve study.toml --folder "sites/$SITE"
  SERVER="localhost:${PORT:-18002}"
  dpcape site serve --folder "sites/$SITE" --kit "federation/kits/$SITE" --server "$SERVER" > "$SITE.log" 2>&1 &
  STARTED+=($!)
done

say "Terminal 1: run, and look at the result"
dpcape run study.toml --out runs/digits
dpcape federation status federation
dpcape site budget main --folder sites/lyon
dpcape site log --verify --folder sites/lyon
