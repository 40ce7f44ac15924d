from typing_extensions import disjoint_base

from kraft_native.request.reply import ReplySink

@disjoint_base
class Endpoint(ReplySink): ...
