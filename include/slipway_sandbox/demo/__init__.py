"""The story `make demo` tells: real digits, four releases, clients that send requests all the time.

images      the handwritten digits: training rows, held-out rows, what clients send
training    the four versions, fitted and laid into S3 as a training job would
onnx_graph  what stands before a fitted classifier in its ONNX file
traffic     the clients, which send the digits all the time
counts      what the clients were answered, and which version a failure was due to
airflow_client  Airflow's REST API, as far as the story needs it
story       the four chapters, and whether each ended as it should
summary     the report for programs, and the page for people
"""
