"""The rules that Airflow's side and the pods' programs share: how what one of them wrote is read by the other.

Values in, values out, by the standard library; NumPy is imported by the functions that need it. What breaks a rule is a
`RuleError`; who asks makes its own error tree of it.
"""
