"""What people are told: a notice, who gets it, and the text it is sent with. Values in, values out."""
