"""The planner: what each policy costs and how accurate it would be, and which one to buy with a budget."""
