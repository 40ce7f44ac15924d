"""`kraft console`: the pages of a cluster, in a process of its own.

    parts        what one query returned, or why it was not answered
    sources      what the console needs of the parts that read metadata logs and flight recorders
    state        view models of the pages: values that were read by the protocol of Kafka, without HTTP
    why          rules that explain in one sentence, with evidence, what is wrong
    search       records of a whole topic that contain some bytes
    decoders     keys and values as text
    visits       one request of a browser: its arguments, its session, its connections
    sessions     logins and the tokens against forged requests
    pages        one function for each page: a visit becomes a template and its values
    app          the routes, the headers of every answer, and the errors
    serving      the socket and the server
"""
