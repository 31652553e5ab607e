"""Runs `t8n` of the specification of Ethereum in Python. The argument is JSON with the command line as `arguments`.

The last line of the output is what `t8n` has written to standard output, in one line.
"""

import contextlib
import io
import json
import sys

from ethereum_spec_tools.evm_tools import main

arguments = json.loads(sys.argv[1])["arguments"]
written = io.StringIO()
with contextlib.redirect_stdout(written):
    code = main(args=arguments, out_file=written, in_file=io.StringIO("{}"))
print(json.dumps(json.loads(written.getvalue()) | {"code": code}))
