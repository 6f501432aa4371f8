local s, d, b = 'say "yes"', "it's", 'both " and \''
print(s, d, b, "\"", '\'', [["]], [[']], '\\', "\\\\n")
