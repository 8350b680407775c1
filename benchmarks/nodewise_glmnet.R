# Nodewise logistic regressions with EBIC by glmnet, as IsingFit does them.
# Rscript nodewise_glmnet.R data.csv out.txt gamma thresh
# data.csv: a header and rows of 0 and 1. out.txt: for each column its coefficients (intercept at its own place), the number
# of lambdas, the chosen lambda and the first lambda. Prints the CPU seconds for all regressions.
suppressMessages(library(glmnet))
given <- commandArgs(TRUE)
x <- as.matrix(read.csv(given[1]))
gamma <- as.numeric(given[3])
m <- ncol(x)
n <- nrow(x)
result <- matrix(0, m, m + 3)
began <- sum(proc.time()[1:2])
for (j in 1:m) {
  path <- glmnet(x[, -j], x[, j], family = "binomial", thresh = as.numeric(given[4]))
  beta <- as.matrix(path$beta)
  eta <- sweep(x[, -j] %*% beta, 2, path$a0, "+")
  fitted <- colSums(x[, j] * eta - log1p(exp(eta)))
  size <- colSums(beta != 0)
  ebic <- -2 * fitted + size * log(n) + 2 * gamma * size * log(m - 1)
  best <- which.min(ebic)
  result[j, (1:m)[-j]] <- beta[, best]
  result[j, j] <- path$a0[best]
  result[j, m + 1:3] <- c(length(path$lambda), path$lambda[best], path$lambda[1])
}
cat(sum(proc.time()[1:2]) - began, as.character(packageVersion("glmnet")), R.version.string, "\n")
write.table(format(result, digits = 15), given[2], row.names = FALSE, col.names = FALSE, quote = FALSE)
