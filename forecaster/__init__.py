"""The forecaster on Kubernetes: writes `status.expected` of DagJobs by plays from the brain's memory."""
