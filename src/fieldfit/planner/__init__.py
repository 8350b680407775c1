"""The planner: what each policy costs, how accurate it is, and which one to fit within a budget."""
