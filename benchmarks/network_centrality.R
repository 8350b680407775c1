# Centralities of a network by qgraph, and neighbourhoods by huge.
# Rscript network_centrality.R weights.csv data.csv centralities.txt edges.txt
# weights.csv: a symmetric matrix without a header. data.csv: a header and rows of 0 and 1. Writes strength, expected influence,
# betweenness and closeness of each variable, and the adjacency matrix that huge selects; prints both versions and the CPU seconds.
suppressMessages(library(qgraph))
suppressMessages(library(huge))
given <- commandArgs(TRUE)
weights <- as.matrix(read.csv(given[1], header = FALSE))
dimnames(weights) <- NULL
began <- sum(proc.time()[1:2])
found <- centrality(weights)
first <- sum(proc.time()[1:2]) - began
columns <- cbind(found$OutDegree, found$OutExpectedInfluence, found$Betweenness, found$Closeness)
write.table(format(columns, digits = 15), given[3], row.names = FALSE, col.names = FALSE, quote = FALSE)
x <- as.matrix(read.csv(given[2]))
began <- sum(proc.time()[1:2])
paths <- huge(x, method = "mb", nlambda = 30, sym = "and", verbose = FALSE)
chosen <- huge.select(paths, criterion = "ric", verbose = FALSE)
second <- sum(proc.time()[1:2]) - began
write.table(as.matrix(chosen$refit) != 0, given[4], row.names = FALSE, col.names = FALSE, quote = FALSE)
cat(first, second, as.character(packageVersion("qgraph")), as.character(packageVersion("huge")), "\n")
