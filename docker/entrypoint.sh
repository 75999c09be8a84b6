#!/bin/sh
# The explorer listens on the loopback interface alone, and a published port leads to another interface of the container:
# join the two. The token in the address of the page is needed in any case.
if [ "${1:-}" = explore ]; then
  own=$(hostname -i | cut -d ' ' -f 1)
  socat "TCP-LISTEN:8765,bind=$own,fork,reuseaddr" TCP:127.0.0.1:8765 &
  set -- "$@" --port 8765 --no-browser
fi
exec stochattn "$@"
